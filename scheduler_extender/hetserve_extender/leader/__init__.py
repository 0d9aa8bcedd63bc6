"""What a leader does before it serves, and how it ends: take-over, fence, label."""
