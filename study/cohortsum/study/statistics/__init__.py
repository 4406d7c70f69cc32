"""The statistics: one module per family, all behind one interface."""
