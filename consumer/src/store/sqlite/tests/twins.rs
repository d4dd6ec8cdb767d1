//! To write next.
