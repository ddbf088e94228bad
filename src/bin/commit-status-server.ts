#!/usr/bin/env -S node --max-semi-space-size=16
// As `npm start` does: with V8's own limit for young objects the server takes 90 MB more and is no faster.
import '../runtime.ts'

// Only now: what an older Node.js cannot load must not be loaded before it was looked at.
await import('../server.ts')
