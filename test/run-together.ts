import { pathToFileURL } from 'node:url'

/** Runs the test files given as arguments one after the other in this process. To start one takes longer than most tests. */
for (const file of process.argv.slice(2)) await import(pathToFileURL(file).href)
