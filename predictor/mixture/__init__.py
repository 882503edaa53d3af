"""The mixture of models of measured times: experts propose configurations and score all of them, weights are learned.

A checkpoint without a learned mixture, such as all before it, answers by the fixed mean of trees and judge: see
`mixture.Mixture`, the one place that decides it.
"""
