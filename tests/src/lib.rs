//! What the integration tests share. The checks of the repository itself (tests/repository) use nothing of it.
