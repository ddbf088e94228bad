import type { Config } from '../config.ts'
import type { Store } from '../store/store.ts'

/** Runs `work` on the database that the environment names, and closes it. */
export type WithStore = (work: (store: Store, config: Config) => Promise<void>) => Promise<void>
