//! `Metal3DataTemplate`: how the data of machines is rendered.
