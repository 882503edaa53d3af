"""The report (`seqtune report`) and figures. A folder `report` would replace the function `seqtune.report` on import.

The report shows a data set or a journal as one static page; the figures are drawn by Matplotlib.
"""
