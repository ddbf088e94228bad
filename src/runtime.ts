/** Node 24.7 is the first that has all that is used here; a native module would crash on a much older one. */
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
/** As opposed to an installed package, which is compiled. */
const inProject = import.meta.url.endsWith('.ts')

if (major < 24 || (major === 24 && minor < 7)) {
  process.stderr.write(
    `commit-status-server needs Node.js 24.7 or later; this is ${process.versions.node}.` +
      `${inProject ? ' Within the project, start it by its npm scripts: "npm ci" installs a Node.js that fits.' : ''}\n`,
  )
  process.exit(1)
}

/** How the administrator's command line is started here. */
export const adminCommand = inProject ? 'npm run --silent cli --' : 'commit-status-admin'
