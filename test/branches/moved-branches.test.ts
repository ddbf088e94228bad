import t from 'tap'
import { databases } from '../helpers/databases.ts'
import { compareMoves } from './moved-branches.ts'

for (const database of databases)
  t.test(`${database.name}: the last commit that passed is one that the branch was at`, (t) =>
    compareMoves(t, database, 30),
  )
