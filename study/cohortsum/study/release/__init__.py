"""What happens between computed and released."""
