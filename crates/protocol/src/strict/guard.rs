//! The wrapper around a deserializer that refuses arrays for structs and applies bounds.
//!
//! Each part of serde's protocol has its wrapper here: deserializer, visitor, seed, and the accesses
//! to lists, objects and enums. Each hands the scope on to the next; [`Scope`] changes only where a
//! member of an object is entered.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};

use super::key::KeySeed;
use crate::bounds::{Bound, LIST_MAX, NAME_BYTES_MAX};

/// The member that is being read.
#[derive(Clone, Copy)]
pub(super) struct Scope<'k> {
    pub(super) bound: Bound,
    /// Its name, for errors.
    pub(super) name: &'k str,
}

impl Scope<'_> {
    fn check_text<E: Error>(&self, text: &str) -> Result<(), E> {
        let bytes_max = self.bound.limits().map(|limits| limits.text_bytes_max);
        check_bytes(self.name, text.len(), bytes_max)
    }

    fn check_list<E: Error>(&self, elements: usize) -> Result<(), E> {
        match self.bound.limits() {
            Some(limits) if elements > limits.list_max => Err(E::custom(format_args!(
                "`{}` has more than {} elements",
                self.name, limits.list_max
            ))),
            _ => Ok(()),
        }
    }
}

fn check_bytes<E: Error>(name: &str, bytes: usize, bytes_max: Option<usize>) -> Result<(), E> {
    match bytes_max {
        Some(bytes_max) if bytes > bytes_max => Err(E::custom(format_args!(
            "`{name}` has {bytes} bytes; at most {bytes_max} are allowed"
        ))),
        _ => Ok(()),
    }
}

/// A part of serde's protocol with the scope it is used in.
pub(super) struct Guard<'k, T> {
    inner: T,
    scope: Scope<'k>,
}

impl<'k, T> Guard<'k, T> {
    pub(super) fn new(inner: T, scope: Scope<'k>) -> Self {
        Self { inner, scope }
    }

    fn around<U>(scope: Scope<'k>, inner: U) -> Guard<'k, U> {
        Guard { inner, scope }
    }
}

/// A visitor with its scope.
struct GuardVisitor<'k, V> {
    inner: V,
    scope: Scope<'k>,
    form: Form,
}

/// What a visitor may be given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Any,
    /// The visitor reads a struct: an array is refused.
    Object,
}

impl<'k, T> Guard<'k, T> {
    fn visitor<V>(&self, inner: V, form: Form) -> GuardVisitor<'k, V> {
        GuardVisitor {
            inner,
            scope: self.scope,
            form,
        }
    }
}

macro_rules! forward_deserialize {
    ($($method:ident($($argument:ident: $type:ty),*) as $form:ident;)*) => {$(
        fn $method<V: Visitor<'de>>(
            self,
            $($argument: $type,)*
            visitor: V,
        ) -> Result<V::Value, Self::Error> {
            let visitor = self.visitor(visitor, Form::$form);
            self.inner.$method($($argument,)* visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Guard<'_, D> {
    type Error = D::Error;

    forward_deserialize! {
        deserialize_any() as Any;
        deserialize_bool() as Any;
        deserialize_i8() as Any;
        deserialize_i16() as Any;
        deserialize_i32() as Any;
        deserialize_i64() as Any;
        deserialize_i128() as Any;
        deserialize_u8() as Any;
        deserialize_u16() as Any;
        deserialize_u32() as Any;
        deserialize_u64() as Any;
        deserialize_u128() as Any;
        deserialize_f32() as Any;
        deserialize_f64() as Any;
        deserialize_char() as Any;
        deserialize_str() as Any;
        deserialize_string() as Any;
        deserialize_bytes() as Any;
        deserialize_byte_buf() as Any;
        deserialize_option() as Any;
        deserialize_unit() as Any;
        deserialize_unit_struct(name: &'static str) as Any;
        deserialize_seq() as Any;
        deserialize_tuple(len: usize) as Any;
        deserialize_tuple_struct(name: &'static str, len: usize) as Any;
        deserialize_map() as Any;
        deserialize_struct(name: &'static str, fields: &'static [&'static str]) as Object;
        deserialize_enum(name: &'static str, variants: &'static [&'static str]) as Any;
        deserialize_identifier() as Any;
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        // serde_json asks for raw JSON under such a name, and reads it as one long text.
        if name.starts_with("$serde_json") {
            return self.inner.deserialize_newtype_struct(name, visitor);
        }
        let visitor = self.visitor(visitor, Form::Any);
        self.inner.deserialize_newtype_struct(name, visitor)
    }

    /// What nobody reads has no bound.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        self.inner.deserialize_ignored_any(visitor)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! forward_visit {
    ($($method:ident($type:ty);)*) => {$(
        fn $method<E: Error>(self, value: $type) -> Result<Self::Value, E> {
            self.inner.$method(value)
        }
    )*};
}

macro_rules! forward_text {
    ($($method:ident($type:ty);)*) => {$(
        fn $method<E: Error>(self, text: $type) -> Result<Self::Value, E> {
            self.scope.check_text(&text)?;
            self.inner.$method(text)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for GuardVisitor<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    forward_visit! {
        visit_bool(bool);
        visit_i8(i8);
        visit_i16(i16);
        visit_i32(i32);
        visit_i64(i64);
        visit_i128(i128);
        visit_u8(u8);
        visit_u16(u16);
        visit_u32(u32);
        visit_u64(u64);
        visit_u128(u128);
        visit_f32(f32);
        visit_f64(f64);
        visit_char(char);
        visit_bytes(&[u8]);
        visit_borrowed_bytes(&'de [u8]);
        visit_byte_buf(Vec<u8>);
    }

    forward_text! {
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_string(String);
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<Self::Value, D::Error> {
        self.inner.visit_some(Guard::new(value, self.scope))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<Self::Value, D::Error> {
        self.inner
            .visit_newtype_struct(Guard::new(value, self.scope))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        if self.form == Form::Object {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        self.inner.visit_seq(GuardSeq {
            inner: seq,
            scope: self.scope,
            elements: 0,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        self.inner.visit_map(GuardMap {
            inner: map,
            scope: self.scope,
            key: String::new(),
            members: 0,
        })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Self::Value, A::Error> {
        self.inner.visit_enum(Guard::new(data, self.scope))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Guard<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Guard::new(deserializer, self.scope))
    }
}

struct GuardSeq<'k, A> {
    inner: A,
    scope: Scope<'k>,
    elements: usize,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for GuardSeq<'_, A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, A::Error> {
        let element = self.inner.next_element_seed(Guard::new(seed, self.scope))?;
        if element.is_some() {
            self.elements += 1;
            self.scope.check_list(self.elements)?;
        }
        Ok(element)
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

struct GuardMap<'k, A> {
    inner: A,
    scope: Scope<'k>,
    /// The member whose value comes next.
    key: String,
    members: usize,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for GuardMap<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        self.key.clear();
        let seed = KeySeed::new(seed, &mut self.key);
        let key = self.inner.next_key_seed(seed)?;
        if key.is_some() && self.scope.bound != Bound::Free {
            self.members += 1;
            if self.key.len() > NAME_BYTES_MAX {
                return Err(A::Error::custom(format_args!(
                    "a member of `{}` has a name of {} bytes; at most {NAME_BYTES_MAX} are allowed",
                    self.scope.name,
                    self.key.len()
                )));
            }
            if self.members > LIST_MAX {
                return Err(A::Error::custom(format_args!(
                    "`{}` has more than {LIST_MAX} members",
                    self.scope.name
                )));
            }
        }
        Ok(key)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        // Below `config` the outer name says more than the client's own.
        let name = match self.scope.bound {
            Bound::Below(_) => self.scope.name,
            Bound::Free | Bound::Member(_) => &self.key,
        };
        let scope = Scope {
            bound: self.scope.bound.of_member(&self.key),
            name,
        };
        self.inner.next_value_seed(Guard::new(seed, scope))
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, 'k, A: EnumAccess<'de>> EnumAccess<'de> for Guard<'k, A> {
    type Error = A::Error;
    type Variant = Guard<'k, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        let scope = self.scope;
        let (word, content) = self.inner.variant_seed(seed)?;
        Ok((word, Self::around(scope, content)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Guard<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        let seed = Guard::new(seed, self.scope);
        self.inner.newtype_variant_seed(seed)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        let visitor = self.visitor(visitor, Form::Any);
        self.inner.tuple_variant(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let visitor = self.visitor(visitor, Form::Object);
        self.inner.struct_variant(fields, visitor)
    }
}
