"""The study definition: the file a statistician writes, checked, frozen and fingerprinted."""
