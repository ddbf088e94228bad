import t from 'tap'
import { databases } from '../helpers/databases.ts'
import { compareHistories } from './random-histories.ts'

for (const database of databases)
  t.test(`${database.name}: the last commit that passed is one that the gate lets in`, (t) =>
    compareHistories(t, database, 40),
  )
