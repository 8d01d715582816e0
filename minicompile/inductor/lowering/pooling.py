"""Windows over images: pooling and nearest-neighbour resizing."""
