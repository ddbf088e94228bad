// clone, fetch and push with isomorphic-git: see git-clients.ts.
import fs from 'node:fs'
import git from 'isomorphic-git'
import http from 'isomorphic-git/http/node'

const [, , operation, url, gitdir, ...rest] = process.argv
const token = process.env.TOKEN
const onAuth = () => (token ? { username: 'x', password: token } : undefined)
const common = { fs, http, gitdir, dir: gitdir, url, onAuth }
const unsupported = () => process.exit(3)

if (operation === 'clone') {
  const [depth, filter] = rest
  if (filter) unsupported()
  await git.clone({ ...common, noCheckout: true, ...(depth && { depth: Number(depth) }) })
} else if (operation === 'fetch') {
  const [spec, ref] = rest
  if (/^[0-9a-f]{40}$/.test(spec)) unsupported()
  const { fetchHead } = await git.fetch({
    ...common,
    ref: spec,
    remoteRef: spec,
    singleBranch: true,
    tags: false,
  })
  await git.writeRef({ fs, gitdir, ref, value: fetchHead, force: true })
} else {
  const [spec, option] = rest
  if (option) unsupported()
  const [ref, remoteRef] = spec.split(':')
  const result = await git.push({
    ...common,
    force: true,
    ...(ref === '' ? { ref: remoteRef, remoteRef, delete: true } : { ref, remoteRef }),
  })
  const refused = Object.entries(result.refs).filter(([, { ok }]) => !ok)
  if (result.ok !== true || refused.length > 0) {
    process.stderr.write(`${JSON.stringify(result)}\n`)
    process.exit(1)
  }
}
