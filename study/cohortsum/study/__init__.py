"""The study definition, the variable catalogue and the statistics; builds the round plan. Pure."""
