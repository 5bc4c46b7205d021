"""The commands about what is kept in state_dir; none needs a running daemon."""
