"""How quick the console's pages are in a real browser, by the browser's own traces."""
