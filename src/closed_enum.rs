//! Closed sets of words: one enum with one spelling per variant, the same in Rust, SQL, JSON and on
//! the screen. Text outside the set is an error that names the set, never a default.

/// Error for a text that is not one of the allowed words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {kind} `{text}`; allowed: {allowed}")]
pub(crate) struct UnknownValue {
    pub(crate) kind: &'static str,
    pub(crate) text: String,
    pub(crate) allowed: String,
}

/// Value that is stored as text.
pub(crate) trait Text {
    fn text(&self) -> &str;
}

/// Type that can be parsed from some texts, or from all.
pub(crate) trait FromText: Sized {
    fn from_text(text: &str) -> Result<Self, UnknownValue>;
}

impl<T: Text + ?Sized> Text for &T {
    fn text(&self) -> &str {
        (**self).text()
    }
}

impl Text for str {
    fn text(&self) -> &str {
        self
    }
}

impl Text for String {
    fn text(&self) -> &str {
        self
    }
}

/// Declares an enum in which each variant has exactly one spelling.
macro_rules! closed_enum {
    ($(#[$meta:meta])* $kind:literal $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum $name { $($(#[$vmeta])* $variant),+ }

        impl $name {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub(crate) fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::closed_enum::UnknownValue;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    other => Err($crate::closed_enum::UnknownValue {
                        kind: $kind,
                        text: other.chars().take(80).collect(),
                        allowed: Self::ALL.iter().map(|word| word.as_str()).collect::<Vec<_>>().join(", "),
                    }),
                }
            }
        }

        impl $crate::closed_enum::Text for $name {
            fn text(&self) -> &str {
                self.as_str()
            }
        }

        impl $crate::closed_enum::FromText for $name {
            fn from_text(text: &str) -> Result<Self, $crate::closed_enum::UnknownValue> {
                text.parse()
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

/// Declares an id type: a short text that people type, with a leading letter for the kind of
/// object.
macro_rules! id {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub(crate) struct $name(String);

        impl $name {
            pub(crate) fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            pub(crate) fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.0)
            }
        }

        impl $crate::closed_enum::Text for $name {
            fn text(&self) -> &str {
                self.as_str()
            }
        }

        impl $crate::closed_enum::FromText for $name {
            fn from_text(text: &str) -> Result<Self, $crate::closed_enum::UnknownValue> {
                Ok(Self::new(text))
            }
        }
    };
}

pub(crate) use closed_enum;
pub(crate) use id;
