//! Where a value's elements lie inside its buffer.

use gt_ir::{AxisSet, DType, Shape, Steps, TensorType};

/// Shape, element strides and offset: all a kernel needs besides the base pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The element type.
    pub dtype: DType,
    /// The extents.
    pub shape: Shape,
    /// Elements between neighbours along each axis; 0 where broadcast, negative where flipped.
    pub strides: Steps,
    /// Elements from the start of the buffer to the first one.
    pub offset: usize,
}

impl Layout {
    /// A packed row-major layout.
    pub fn packed(ty: TensorType) -> Self {
        Layout { dtype: ty.dtype, shape: ty.shape, strides: ty.shape.contiguous_strides(), offset: 0 }
    }

    /// The tensor type.
    pub fn ty(&self) -> TensorType {
        TensorType { dtype: self.dtype, shape: self.shape }
    }

    /// Whether the elements lie packed in row-major order (wherever they start).
    pub fn is_packed(&self) -> bool {
        let mut expected = 1i64;
        for axis in (0..self.shape.rank()).rev() {
            if self.shape[axis] != 1 && self.strides[axis] != expected {
                return self.shape.numel() == 0;
            }
            expected *= self.shape[axis] as i64;
        }
        true
    }

    /// Axis `i` becomes axis `perm[i]`.
    pub fn permute(&self, perm: &Steps) -> Self {
        let shape = self.shape.permuted(perm).expect("a permutation of the axes");
        Layout { shape, strides: perm.map(|p| self.strides[p as usize]), ..*self }
    }

    /// Repeats axes of extent 1 and adds axes in front; `shape` must be broadcastable to.
    pub fn broadcast(&self, shape: &Shape) -> Self {
        let lead = shape.rank() - self.shape.rank();
        let mut strides = Steps::splat(shape.rank(), 0);
        for axis in 0..self.shape.rank() {
            if self.shape[axis] == shape[axis + lead] {
                strides[axis + lead] = self.strides[axis];
            }
        }
        Layout { shape: *shape, strides, ..*self }
    }

    /// `sizes` elements per axis from `starts` on, `steps` apart; `None` when that leaves the layout.
    pub fn slice(&self, sizes: &Shape, starts: &[i64], steps: &Steps) -> Option<Self> {
        let mut out = Layout { shape: *sizes, ..*self };
        if sizes.numel() == 0 {
            return Some(out);
        }
        let mut offset = self.offset as i64;
        for axis in 0..sizes.rank() {
            let (start, extent) = (*starts.get(axis)?, self.shape[axis] as i64);
            let last = (sizes[axis] as i64 - 1).checked_mul(steps[axis]).and_then(|d| d.checked_add(start))?;
            if start < 0 || start >= extent || last < 0 || last >= extent {
                return None;
            }
            offset += start * self.strides[axis];
            // A single element may be any step from the next, which is nowhere. Otherwise the step is inside the axis.
            if sizes[axis] > 1 {
                out.strides[axis] *= steps[axis];
            }
        }
        out.offset = usize::try_from(offset).ok()?;
        Some(out)
    }

    /// Without these axes, which have one element each.
    pub fn drop_axes(&self, axes: AxisSet) -> Self {
        if axes.is_empty() {
            return *self;
        }
        let strides = (0..self.shape.rank()).filter(|&a| !axes.contains(a)).map(|a| self.strides[a]).collect();
        Layout { shape: axes.remove_from(&self.shape), strides, ..*self }
    }

    /// With axes of one element put in: undoes [`Layout::drop_axes`].
    pub fn insert_axes(&self, axes: AxisSet) -> Self {
        Layout { shape: axes.insert_into(&self.shape), strides: axes.insert_value(&self.strides, 0), ..*self }
    }

    /// The same elements, row-major, in another shape without copying; `None` when strides do not allow it.
    pub fn reshape(&self, shape: &Shape) -> Option<Self> {
        if self.shape.numel() == 0 || self.is_packed() {
            return Some(Layout { shape: *shape, strides: shape.contiguous_strides(), ..*self });
        }
        let strides = self.shape.strides_seen_as(&self.strides, shape)?;
        Some(Layout { shape: *shape, strides, ..*self })
    }
}
