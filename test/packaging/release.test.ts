import { spawnSync } from 'node:child_process'
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { temporaryFolder } from '../helpers/databases.ts'
import { git } from '../helpers/git.ts'

const command = resolve('src/packaging/release.ts')

t.test('a release needs a newer version, a changelog, a clean tree and green checks', async (t) => {
  const clone = join(temporaryFolder(t), 'clone')
  git('.', 'clone', '--quiet', '--shared', '.', clone)
  const read = (path: string) => readFileSync(join(clone, path), 'utf8')
  const edit = (path: string, before: string | RegExp, after: string) =>
    writeFileSync(
      join(clone, path),
      read(path).replace(before, () => after),
    )
  const commit = () => git(clone, 'commit', '--quiet', '--all', '--message', 'Test')
  const release = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [command, ...args], {
      cwd: clone,
      encoding: 'utf8',
    })
    return { status, stdout, stderr }
  }
  const refuses = (message: RegExp, ...args: string[]) => {
    t.match(release(...args), { status: 1, stdout: '', stderr: message })
    t.same(read('package.json').includes('99.0.0'), false)
  }
  const check = /"check": ".*"/
  edit('package.json', check, '"check": "exit 1"')
  edit('openapi.yaml', /version: .*/, 'version: 98.0.0')
  edit('CHANGELOG.md', /## \[Unreleased\][\s\S]*?\n## /, '## [Unreleased]\n\n## ')
  commit()

  refuses(/^"" is not a version \(expected for example 1\.2\.3\)/)
  refuses(/^"99.0" is not a version/, '99.0')
  refuses(/^"99.0.0 extra" is not a version/, '99.0.0', 'extra')
  const former = JSON.parse(read('package.json')).version
  refuses(new RegExp(`^${former} is not newer than \\d`), former)
  refuses(/^CHANGELOG\.md lists nothing below "Unreleased"/, '99.0.0')
  edit('CHANGELOG.md', '## [Unreleased]\n', '## [Unreleased]\n\n- A change.\n')
  refuses(/^CHANGELOG\.md does not say "Version 98\.0\.0 of openapi\.yaml\."/, '99.0.0')
  edit('CHANGELOG.md', '- A change.', 'Version 98.0.0 of openapi.yaml.\n\n- A change.')
  refuses(/^Commit or remove these changes first:\n M CHANGELOG\.md\n$/, '99.0.0')
  commit()
  refuses(/^"npm run check" failed/, '99.0.0')
  edit('package.json', check, '"check": "exit 0"')
  commit()

  const { status, stdout, stderr } = release('99.0.0')
  t.same([status, stderr], [0, ''])
  t.match(stdout, /^Version 99\.0\.0 with version 98\.0\.0 of openapi\.yaml\. /)
  const today = new Date().toISOString().slice(0, 10)
  t.match(
    read('CHANGELOG.md'),
    `## [Unreleased]\n\n## [99.0.0] - ${today}\n\nVersion 98.0.0 of openapi.yaml.\n\n- A change.\n`,
  )
  t.equal(read('test/contract/released/openapi-98.0.0.yaml'), read('openapi.yaml'))
  const { packages, version } = JSON.parse(read('package-lock.json'))
  t.same(
    [
      JSON.parse(read('package.json')).version,
      JSON.parse(read('clients/typescript/package.json')).version,
      version,
      packages[''].version,
      packages['clients/typescript'].version,
      ...new Set(read('src/ops/README.md').match(/(?<=commit-status-server-)\d+\.\d+\.\d+/g)),
    ],
    Array(6).fill('99.0.0'),
  )
  t.equal(git(clone, 'diff', '--numstat', 'package-lock.json').trim(), '3\t3\tpackage-lock.json', former)

  commit()
  appendFileSync(join(clone, 'openapi.yaml'), '# changed\n')
  edit(
    'CHANGELOG.md',
    '## [Unreleased]\n',
    '## [Unreleased]\n\nVersion 98.0.0 of openapi.yaml.\n\n- A change.\n',
  )
  t.match(release('100.0.0'), {
    status: 1,
    stderr: /^openapi\.yaml differs from version 98\.0\.0 as released/,
  })
})
