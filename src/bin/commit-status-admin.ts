#!/usr/bin/env node
import '../runtime.ts'
import { enableCompileCache } from './compile-cache.ts'

enableCompileCache()
// Imported after the check of the version, since an older Node.js cannot load it.
await import('../cli/main.ts')
