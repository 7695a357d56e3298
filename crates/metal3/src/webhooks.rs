//! The webhooks: conversion between the versions of the kinds, and validation.
