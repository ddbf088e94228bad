import promises, { type FileHandle } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { relative } from 'node:path'
import type { Test } from 'tap'

/**
 * Records the calls that decide what is left after a power cut, in their order: `sync PATH`,
 * `rename FROM TO`, `link FROM TO`. The calls themselves go on to the system.
 *
 * @param folder paths are relative to it, and calls outside of it are left out
 */
export async function recordFileCalls(t: Test, folder: string): Promise<string[]> {
  const calls: string[] = []
  const record = (name: string, ...paths: string[]) => {
    const names = paths.map((path) => relative(folder, path) || '.')
    if (!names.some((path) => path.startsWith('..'))) calls.push([name, ...names].join(' '))
  }
  const { open, rename, link } = promises
  const paths = new WeakMap<FileHandle, string>()
  const handle = await open(folder)
  const prototype: FileHandle = Object.getPrototypeOf(handle)
  const { sync } = prototype
  await handle.close()

  prototype.sync = function (this: FileHandle) {
    record('sync', paths.get(this) ?? '..')
    return sync.call(this)
  }
  promises.open = async (...args: Parameters<typeof open>) => {
    const opened = await open(...args)
    paths.set(opened, String(args[0]))
    return opened
  }
  promises.rename = (from, to) => {
    record('rename', String(from), String(to))
    return rename(from, to)
  }
  promises.link = (from, to) => {
    record('link', String(from), String(to))
    return link(from, to)
  }
  syncBuiltinESMExports()
  t.teardown(() => {
    prototype.sync = sync
    Object.assign(promises, { open, rename, link })
    syncBuiltinESMExports()
  })
  return calls
}
