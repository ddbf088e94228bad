import { registerHooks } from 'node:module'
import { fileURLToPath } from 'node:url'
import { applyEdits } from './edit.ts'
import { mutants } from './list.ts'

/**
 * Loaded before the server (`node --import`): replaces source files by those of the mutant that
 * MUTANT names.
 */
const name = process.env.MUTANT ?? ''
const edits = mutants[name]
if (!edits) throw new Error(`MUTANT: "${name}" is not a mutant`)
const changed = applyEdits(name, edits)
const pending = new Set(changed.keys())

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context)
    const path = url.startsWith('file:') ? fileURLToPath(url) : ''
    const source = changed.get(path)
    if (source === undefined) return loaded
    pending.delete(path)
    return { ...loaded, source }
  },
})

process.on('exit', () => {
  if (pending.size > 0) process.stderr.write(`${name}: never loaded: ${[...pending].join(', ')}\n`)
})
