//! How numbers and dtypes are written in descriptions that travel: JSON has no infinities and no NaN, and a pad value or a limit
//! may be one.

/// A number as its bits.
pub(crate) mod bits {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(x: &f64, s: S) -> Result<S::Ok, S::Error> {
        x.to_bits().serialize(s)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
        u64::deserialize(d).map(f64::from_bits)
    }
}

/// Numbers with names.
pub(crate) mod named_bits {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(named: &[(String, f64)], s: S) -> Result<S::Ok, S::Error> {
        let bits: Vec<(&str, u64)> = named.iter().map(|(name, x)| (name.as_str(), x.to_bits())).collect();
        bits.serialize(s)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<(String, f64)>, D::Error> {
        let bits = Vec::<(String, u64)>::deserialize(d)?;
        Ok(bits.into_iter().map(|(name, x)| (name, f64::from_bits(x))).collect())
    }
}

/// A dtype as its name.
pub(crate) mod dtype_name {
    use gt_ir::DType;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(dtype: &DType, s: S) -> Result<S::Ok, S::Error> {
        dtype.name().serialize(s)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<DType, D::Error> {
        let name = String::deserialize(d)?;
        DType::from_name(&name).ok_or_else(|| D::Error::custom(format!("{name} is not a dtype")))
    }
}
