//! A model as it is distributed, and how it becomes the file that is used: checked by its SHA-256, before and after it is
//! unpacked.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use miniz_oxide::inflate::decompress_to_vec_with_limit;
use ring::digest::{SHA256, digest};

use super::published::{ALL, ModelForm, Published, installed};
use super::quantize::quantized;

/// Nothing larger is unpacked.
const MOST_BYTES: usize = 160 << 20;

/// A reason to refuse a file.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// It cannot be read, or the model cannot be written.
    #[error("{path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It is something else.
    #[error("{0} is no model that this version can use (its SHA-256 differs)")]
    Other(PathBuf),
}

/// Installs a model from its archive, or from the model's own file, into the directory of models. Any other model there goes.
pub fn install(from: &Path, models: &Path) -> Result<&'static Published, PackageError> {
    let unreadable = |source| PackageError::Io { path: from.to_owned(), source };
    let bytes = std::fs::read(from).map_err(unreadable)?;
    let other = || PackageError::Other(from.to_owned());
    let sum = sha256(&bytes);
    let is_it = |model: &&Published| [model.archive_sha256, model.model_sha256].contains(&sum.as_str());
    let published = ALL.iter().find(is_it).ok_or_else(other)?;
    let model = match sum == published.model_sha256 {
        true => bytes,
        false => unpack(bytes, &published.form)
            .filter(|model| sha256(model) == published.model_sha256)
            .ok_or_else(other)?,
    };
    let target = published.file(models);
    let unwritable = |source| PackageError::Io { path: target.clone(), source };
    // Whole or not at all: a worker may look at any moment.
    let part = target.with_extension("part");
    let mut out = File::create(&part).map_err(unwritable)?;
    out.write_all(&model).and_then(|()| out.sync_all()).map_err(unwritable)?;
    std::fs::rename(&part, &target).map_err(unwritable)?;
    for other in ALL.iter().filter(|other| other.name != published.name) {
        let _ = std::fs::remove_file(other.file(models));
    }
    Ok(published)
}

/// Compares the installed file with the model that it should be; nothing if there is none.
pub fn is_intact(models: &Path) -> Option<bool> {
    let published = installed(models)?;
    let model = std::fs::read(published.file(models));
    Some(model.is_ok_and(|model| sha256(&model) == published.model_sha256))
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The model out of its archive. The archive was checked, so that only its own features matter.
fn unpack(archive: Vec<u8>, form: &ModelForm) -> Option<Vec<u8>> {
    match form {
        ModelForm::Bytes => quantized(&zipped(&archive, "/model.onnx")?, &[]).ok(),
        ModelForm::Numbers => {
            let packed = zipped(&archive, ".tar.gz")?;
            drop(archive);
            // Ten bytes of gzip's head without any options.
            let tape = decompress_to_vec_with_limit(packed.get(10..)?, MOST_BYTES).ok()?;
            drop(packed);
            quantized(taped(&tape, ".onnx")?, taped(&tape, ".onnx.data")?).ok()
        }
    }
}

/// The entry of a zip archive whose name ends so: entries one after the other, deflated, with their sizes before them.
fn zipped(archive: &[u8], name_ends: &str) -> Option<Vec<u8>> {
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let part = archive.get(at..at + bytes)?;
        Some(part.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    let mut at = 0;
    while archive.get(at..at + 4)? == b"PK\x03\x04" {
        let (packed, name, extra) = (number(at + 18, 4)?, number(at + 26, 2)?, number(at + 28, 2)?);
        let data = at + 30 + name + extra;
        if archive.get(at + 30..at + 30 + name)?.ends_with(name_ends.as_bytes()) {
            return decompress_to_vec_with_limit(archive.get(data..data + packed)?, MOST_BYTES).ok();
        }
        at = data + packed;
    }
    None
}

/// The file of a tape archive whose name ends so.
fn taped<'a>(tape: &'a [u8], name_ends: &str) -> Option<&'a [u8]> {
    const BLOCK: usize = 512;
    let mut at = 0;
    loop {
        let head = tape.get(at..at + BLOCK)?;
        let text = |from: usize, to: usize| {
            std::str::from_utf8(&head[from..to]).ok().map(|text| text.trim_matches(['\0', ' ']))
        };
        let size = usize::from_str_radix(text(124, 136)?, 8).ok()?;
        if text(0, 100)?.ends_with(name_ends) {
            return tape.get(at + BLOCK..at + BLOCK + size);
        }
        at += BLOCK + size.div_ceil(BLOCK) * BLOCK;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_tape_are_found_by_how_their_names_end() {
        let mut tape = Vec::new();
        for (name, text) in [("m.onnx", "graph"), ("m.onnx.data", "weights")] {
            let mut head = [0; 512];
            head[..name.len()].copy_from_slice(name.as_bytes());
            head[124..135].copy_from_slice(format!("{:011o}", text.len()).as_bytes());
            tape.extend(head);
            tape.extend(text.bytes().chain(std::iter::repeat(0)).take(512));
        }
        assert_eq!(taped(&tape, ".onnx"), Some(&b"graph"[..]));
        assert_eq!(taped(&tape, ".onnx.data"), Some(&b"weights"[..]));
        assert_eq!(taped(&tape, ".txt"), None);
        assert_eq!(taped(&tape[..600], ".data"), None, "cut off");
    }

    #[test]
    fn every_model_has_two_hosts_with_the_same_file_and_pinned_sums() {
        for model in &ALL {
            let file = |source: &&str| source.rsplit('/').next().map(str::to_owned);
            let hosts: std::collections::HashSet<_> =
                model.sources.iter().map(|source| source.split('/').nth(2)).collect();
            assert!(hosts.len() > 1, "{}", model.word);
            assert!(
                model.sources.iter().all(|source| file(source) == file(&model.sources[0])),
                "{}",
                model.word
            );
            assert!(
                [model.archive_sha256, model.model_sha256].iter().all(|sum| sum.len() == 64),
                "{}",
                model.word
            );
        }
    }
}
