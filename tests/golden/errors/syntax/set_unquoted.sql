SET table.exec.mini-batch.enabled = true today
