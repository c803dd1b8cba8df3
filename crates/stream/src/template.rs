//! Templates: recipes with their source lines, as they travel and as they are expected.

use std::sync::Arc;

use gt_ir::codec::{Reader, put_varint};
use gt_ir::{OpError, SiteId};

use crate::Recipe;

/// A recipe, and the source line of each of its instructions.
#[derive(Clone, Debug)]
pub struct Template {
    /// What is computed.
    pub recipe: Arc<Recipe>,
    /// Which lines ask for it.
    pub sites: Arc<[SiteId]>,
}

impl Template {
    /// Whether both stand for the same windows of the same lines.
    #[inline]
    pub fn is(&self, other: &Template) -> bool {
        Arc::ptr_eq(&self.recipe, &other.recipe)
            && (Arc::ptr_eq(&self.sites, &other.sites) || self.sites == other.sites)
    }

    /// The memory it takes.
    pub fn held_bytes(&self) -> usize {
        self.recipe.held_bytes() + size_of_val(&self.sites[..])
    }

    /// Appends the binary form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.recipe.encode(out);
        self.sites.iter().for_each(|site| put_varint(out, site.0 as u64));
    }

    /// Reads the binary form of a template from outside.
    ///
    /// # Errors
    /// When the bytes are not a template.
    pub fn decode(r: &mut Reader<'_>) -> Result<Template, OpError> {
        let recipe = Recipe::decode(r)?;
        let sites = decode_sites(r, recipe.len())?;
        Ok(Template { recipe, sites })
    }
}

/// The source lines of so many instructions.
pub(crate) fn decode_sites(r: &mut Reader<'_>, count: usize) -> Result<Arc<[SiteId]>, OpError> {
    r.spend(count * size_of::<SiteId>())?;
    (0..count).map(|_| r.small().map(SiteId)).collect()
}
