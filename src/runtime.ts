import { readFileSync } from 'node:fs'

/**
 * Node 24.7 is the first version with everything that the server uses; a native module crashes on
 * much older ones.
 */
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
/** Whether this is the project, not an installed package, which is compiled. */
const inProject = import.meta.url.endsWith('.ts')

if (major < 24 || (major === 24 && minor < 7)) {
  process.stderr.write(
    `commit-status-server needs Node.js 24.7 or later; this is ${process.versions.node}.` +
      `${inProject ? ' In the project, use its npm scripts: "npm ci" installs a Node.js that fits.' : ''}\n`,
  )
  process.exit(1)
}

/** The command that starts the administrator's command line. */
export const adminCommand = inProject ? 'npm run --silent cli --' : 'commit-status-admin'

const read = (path: string): unknown => JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8'))
// npm neither installs nor packs a package without a version. The commit is in packages that were
// built from a clone.
const manifest = read('../package.json') as { version: string; gitHead?: string }

/** Version of the server and of its command line. */
export const { version } = manifest

/**
 * Returns what `--version` prints: the version alone, or with `--json` all that identifies what
 * runs.
 */
export function versionText(args: readonly string[]): string {
  if (!args.includes('--version') || !args.includes('--json')) return version
  const { info } = read('../generated/openapi.json') as { info: { version: string } }
  const { versions } = process
  return JSON.stringify({
    version,
    contract: info.version,
    node: versions.node,
    commit: manifest.gitHead ?? null,
  })
}
