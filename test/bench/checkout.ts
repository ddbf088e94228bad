import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dirname, '../..')
const LOCK_FILE = 'package-lock.json'
const MAX_ARCHIVE = 256 * 1024 ** 2

/** A commit of this project in a folder of its own, with its packages. */
export interface Checkout {
  folder: string
  remove(): void
}

/** Installs a commit; with the packages of this folder if it has the same ones. */
export function installCommit(commit: string): Checkout {
  const archive = execFileSync('git', ['archive', commit], { cwd: root, maxBuffer: MAX_ARCHIVE })
  const folder = mkdtempSync(join(tmpdir(), 'bench-commit-'))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  try {
    execFileSync('tar', ['-x'], { cwd: folder, input: archive })
    const lockFile = (place: string) => readFileSync(join(place, LOCK_FILE), 'utf8')
    if (lockFile(folder) === lockFile(root))
      symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
    else
      execFileSync('npm', ['ci', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund'], {
        cwd: folder,
        stdio: ['ignore', 'ignore', 'inherit'],
      })
    return { folder, remove }
  } catch (error) {
    remove()
    throw error
  }
}
