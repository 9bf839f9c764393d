//! Words of texts and queries: split, folded and stemmed as the index does it, stop words, and English words for other languages.

pub mod glossary;
pub mod stop_words;
pub mod words;
