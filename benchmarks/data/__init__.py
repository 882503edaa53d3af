"""The program that measures the shipped data set."""
