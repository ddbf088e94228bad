import { registerHooks } from 'node:module'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { faults } from './list.ts'

/**
 * Loaded in front of the server (`node --import`), it gives it the fault that FAULT names: the source text is changed as
 * it is read, so the server's own code knows nothing of faults.
 */
const root = resolve(import.meta.dirname, '../../..')
const fault = faults[process.env.FAULT ?? '']
if (!fault) throw new Error(`there is no fault "${process.env.FAULT}"`)
const edits = fault.edits.map(([file, from, to]) => ({
  url: pathToFileURL(resolve(root, file)).href,
  file,
  from,
  to,
}))
const open = new Set(edits)

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context)
    const here = edits.filter((edit) => edit.url === url)
    if (here.length === 0 || !loaded.source) return loaded
    let source = Buffer.from(loaded.source.toString()).toString()
    for (const edit of here) {
      if (!source.includes(edit.from)) throw new Error(`${edit.file} does not hold: ${edit.from}`)
      source = source.replace(edit.from, () => edit.to)
      open.delete(edit)
    }
    return { ...loaded, source }
  },
})

process.on('exit', () => {
  if (open.size > 0) process.stderr.write(`never loaded: ${[...open].map(({ file }) => file).join(', ')}\n`)
})
