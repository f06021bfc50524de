"""Floor 2: models as facts, their modules, papers, and folders."""
