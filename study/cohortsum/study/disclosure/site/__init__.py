"""What a site checks of its own people before anything is masked: pure numbers, which never leave the site."""
