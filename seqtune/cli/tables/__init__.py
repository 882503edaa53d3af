"""Tables of answers on standard output, in modules named as the commands that print them."""
