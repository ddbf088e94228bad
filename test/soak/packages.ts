import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import tap from 'tap'
import {
  compileConsumer,
  execute,
  exercise,
  installNode20,
  npmEnvironment,
  pack,
} from '../../clients/typescript/test/helpers/package.ts'
import { startService } from '../../clients/typescript/test/helpers/service.ts'
import { git } from '../helpers/git.ts'
import { packServer, pathOf, useInstalled } from '../packaging/installed.ts'

/**
 * Has npm install both packages into empty folders: the server with nothing else on its PATH, the client by the line of its
 * README, used on Node.js 20 and 24 by consumers of both kinds of module resolution.
 */
const run = promisify(execFile)
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'packages-')))
tap.teardown(() => rmSync(folder, { recursive: true, force: true }))
tap.setTimeout(600_000)

tap.test('the server', async (t) => {
  const { tarball } = await packServer(folder)
  const prefix = join(folder, 'prefix')
  const install = ['install', '--global', '--prefix', prefix, '--prefer-offline', '--no-audit', '--no-fund']
  await run('npm', [...install, '--silent', tarball], {
    env: { ...npmEnvironment(), PATH: pathOf(folder, ['node', 'npm', 'sh', 'git']) },
  })
  await useInstalled(t, join(prefix, 'bin'), folder)
})

tap.test('the client', async (t) => {
  const [packed, node20] = await Promise.all([pack(folder), installNode20(folder)])
  const { server, path, commits, token } = await startService(t, { commits: 2 })
  const readme = readFileSync(resolve('clients/typescript/README.md'), 'utf8')
  const [, install = ''] = /^```sh\n(npm install [\s\S]*?)^```$/m.exec(readme) ?? []
  const project = join(folder, 'project')
  git(folder, 'clone', '--quiet', path, project)
  git(project, 'remote', 'set-url', 'origin', 'https://git.example.org/acme/rocket.git')
  await execute(project, 'sh', ['-ec', install.replace('@commit-status/client', packed.tarball)], {
    ...npmEnvironment(),
    npm_config_audit: 'false',
    npm_config_fund: 'false',
  })
  const consumers = [await compileConsumer(project, 'nodenext'), await compileConsumer(project, 'bundler')]
  for (const [index, node] of [node20, dirname(process.execPath)].entries()) {
    const version = await execute(project, join(node, 'node'), ['--version'])
    t.match(version, index === 0 ? /^v20\./ : /^v24\./)
    const commit = commits[index] ?? ''
    await exercise(t, { project, node, consumers, url: server.url, token, commit })
  }
})
