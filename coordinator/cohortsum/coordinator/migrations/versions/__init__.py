"""One file per revision, oldest first; see `cohortsum.coordinator.migrations`."""
