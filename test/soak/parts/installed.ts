import { execFile, execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { startProcess } from '../../helpers/process.ts'

const run = promisify(execFile)
const { version, optionalDependencies } = JSON.parse(readFileSync('package.json', 'utf8'))

/** Makes a folder with links to these programs alone, to be the whole PATH. @returns its path */
export function pathOf(folder: string, programs: string[]): string {
  const path = join(folder, `path-${programs.length}`)
  mkdirSync(path)
  for (const program of programs) {
    const found = (process.env.PATH ?? '').split(':').find((place) => existsSync(join(place, program)))
    symlinkSync(join(found ?? '', program), join(path, program))
  }
  return path
}

/** Packs the server as the guide says, for all processors. @returns the file for this one */
export function packServer(): string {
  execFileSync('npm', ['run', '--silent', 'package'], { stdio: ['ignore', 'ignore', 'inherit'] })
  return resolve(`dist/commit-status-server-${version}-linux-${process.arch}.tgz`)
}

/**
 * Starts an installed server without a Node.js of the system, administers it and sends a report.
 *
 * @param bins folder of its programs
 * @param folder receives its data
 */
export async function useInstalled(t: Test, bins: string, folder: string): Promise<void> {
  const bin = (name: string) => join(bins, name)
  // No Node.js of the system: the package brings the one that it runs on.
  const PATH = pathOf(folder, ['sh', 'git', 'dirname', 'readlink', 'sync'])
  const environment = {
    PATH,
    PORT: '0',
    DATA_DIR: join(folder, 'data'),
    LOG_LEVEL: 'info',
  }
  const admin = (...args: string[]) => run(bin('commit-status-admin'), args, { env: environment })
  const server = startProcess(t, bin('commit-status-server'), [], environment)
  const [, url = ''] = await server.printed(/^Listening on (http:.+)$/m)
  t.match(await (await fetch(`${url}/openapi.yaml`)).text(), /^openapi: /)
  t.match(await (await fetch(`${url}/`)).text(), /<!doctype html>/)
  const assets = ['style.css', 'swagger-ui.css', 'commit-status.sh', 'commit-status-client.tgz', 'SKILL.md']
  for (const path of [...assets.map((name) => `/assets/${name}`), '/docs', '/readyz']) {
    t.equal((await fetch(url + path)).status, 200, path)
  }

  for (const program of ['commit-status-server', 'commit-status-admin']) {
    const { stdout } = await run(bin(program), ['--version'], { env: environment })
    t.equal(stdout, `${version}\n`, `${program} --version`)
    const json = await run(bin(program), ['--version', '--json'], { env: environment })
    t.match(JSON.parse(json.stdout), {
      version,
      node: optionalDependencies[`node-linux-${process.arch}`],
      commit: existsSync('.git') ? /^[0-9a-f]{40}(-dirty)?$/ : null,
    })
  }
  await admin('user', 'create', 'alice')
  await admin('repo', 'create', 'alice/rocket')
  const { stdout: token } = await admin('token', 'create', 'alice')
  const report = await fetch(`${url}/api/v1/repos/alice/rocket/statuses/${'0'.repeat(40)}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token.trim()}`, 'content-type': 'application/json' },
    body: '{"state": "success"}',
  })
  t.equal(report.status, 404, 'there is no such commit, but everything else was right')
  t.match(await report.text(), /^\{"error":"[^"]+"\}$/)
}
