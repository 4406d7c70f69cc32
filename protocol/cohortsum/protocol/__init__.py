"""The round plan and the round as pure state machines, with their messages and codec. No I/O, no clock."""
