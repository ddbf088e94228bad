#!/usr/bin/env node
import '../runtime.ts'

// Only now: what an older Node.js cannot load must not be loaded before it was looked at.
await import('../server.ts')
