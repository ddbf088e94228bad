/** Node 24.7 is the first that has all that is used here; a native module would crash on a much older one. */
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)

if (major < 24 || (major === 24 && minor < 7)) {
  process.stderr.write(
    `commit-status-server needs Node.js 24.7 or later; this is ${process.versions.node}. ` +
      'Within the project, start it by its npm scripts: "npm ci" installs a Node.js that fits.\n',
  )
  process.exit(1)
}
