"""Parts that several programs use: contests, pages, options, and how work resumes."""
