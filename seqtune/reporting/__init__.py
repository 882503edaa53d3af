"""The report: a data set or a journal as one static page (`seqtune report`); and figures, drawn by Matplotlib."""
