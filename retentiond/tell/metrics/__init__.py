"""The metrics: what each is, whence its value comes, and how they are scraped."""
