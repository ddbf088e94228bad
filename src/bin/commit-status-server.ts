#!/usr/bin/env node
import '../runtime.ts'

// Imported after the check above, since an older Node.js cannot load it.
await import('../server.ts')
