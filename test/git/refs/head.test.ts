import { join } from 'node:path'
import t from 'tap'
import { readHeadId } from '../../../src/git/refs/head.ts'
import { createBareRepository } from '../../../src/git/repository.ts'
import { temporaryFolder } from '../../helpers/databases.ts'
import { git, gitWith, importCommits } from '../../helpers/git.ts'

t.test('the commit of HEAD is found wherever git keeps its branch', async (t) => {
  const path = join(temporaryFolder(t), 'r.git')
  await createBareRepository(path, 'sha1')
  t.equal(await readHeadId(path), null, 'no commit')
  const [first = '', second = ''] = importCommits(path, 2)
  git(path, 'update-ref', 'refs/heads/main', first)
  t.equal(await readHeadId(path), first, 'a file of its own')

  const many = Array.from({ length: 3_000 }, (_, index) => `create refs/heads/a${index} ${second}\n`)
  gitWith(path, many.join(''), 'update-ref', '--stdin')
  git(path, 'pack-refs', '--all', '--prune')
  t.equal(await readHeadId(path), first, 'a line far down in the list of packed refs')

  git(path, 'symbolic-ref', 'refs/heads/trunk', 'refs/heads/main')
  git(path, 'symbolic-ref', 'HEAD', 'refs/heads/trunk')
  t.equal(await readHeadId(path), first, 'a symbolic ref')
  git(path, 'update-ref', '--no-deref', 'HEAD', second)
  t.equal(await readHeadId(path), second, 'HEAD is detached')
  t.equal(await readHeadId(join(path, 'none')), null, 'no repository')
})
