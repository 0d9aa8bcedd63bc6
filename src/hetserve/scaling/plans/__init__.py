"""Plans that the policy asks for: questions, answers, and what counts hold."""
