//! The names of the host's functions that order the ranks, which `host/edges.c` wraps for the
//! conflict checker.

use std::arch::naked_asm;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::host::host_tool;

macro_rules! watched {
    ($($name:literal $profiled:literal $edge:ident;)*) => {
        #[allow(non_snake_case)]
        // SAFETY: the functions are those of host/edges.h; only jumps lead to them, which leave all
        // arguments in place.
        unsafe extern "C" {
            $(fn $edge();)*
        }

        routed! { $($name => $edge;)* }
        aliases! { $($profiled => $edge;)* }
    };
}

watched! {
    "MPI_Reduce_local" "PMPI_Reduce_local" edge_Reduce_local;
    "MPI_Pack" "PMPI_Pack" edge_Pack;
    "MPI_Unpack" "PMPI_Unpack" edge_Unpack;
    "MPI_Pack_external" "PMPI_Pack_external" edge_Pack_external;
    "MPI_Unpack_external" "PMPI_Unpack_external" edge_Unpack_external;
    "MPI_Grequest_complete" "PMPI_Grequest_complete" edge_Grequest_complete;
    "MPI_Send_init" "PMPI_Send_init" edge_Send_init;
    "MPI_Bsend_init" "PMPI_Bsend_init" edge_Bsend_init;
    "MPI_Rsend_init" "PMPI_Rsend_init" edge_Rsend_init;
    "MPI_Ssend_init" "PMPI_Ssend_init" edge_Ssend_init;
    "MPI_Recv_init" "PMPI_Recv_init" edge_Recv_init;
    "MPI_Allreduce" "PMPI_Allreduce" edge_Allreduce;
    "MPI_Allgather" "PMPI_Allgather" edge_Allgather;
    "MPI_Allgatherv" "PMPI_Allgatherv" edge_Allgatherv;
    "MPI_Alltoall" "PMPI_Alltoall" edge_Alltoall;
    "MPI_Alltoallv" "PMPI_Alltoallv" edge_Alltoallv;
    "MPI_Alltoallw" "PMPI_Alltoallw" edge_Alltoallw;
    "MPI_Reduce_scatter" "PMPI_Reduce_scatter" edge_Reduce_scatter;
    "MPI_Reduce_scatter_block" "PMPI_Reduce_scatter_block" edge_Reduce_scatter_block;
    "MPI_Bcast" "PMPI_Bcast" edge_Bcast;
    "MPI_Scatter" "PMPI_Scatter" edge_Scatter;
    "MPI_Scatterv" "PMPI_Scatterv" edge_Scatterv;
    "MPI_Reduce" "PMPI_Reduce" edge_Reduce;
    "MPI_Gather" "PMPI_Gather" edge_Gather;
    "MPI_Gatherv" "PMPI_Gatherv" edge_Gatherv;
    "MPI_Scan" "PMPI_Scan" edge_Scan;
    "MPI_Exscan" "PMPI_Exscan" edge_Exscan;
    "MPI_Neighbor_allgather" "PMPI_Neighbor_allgather" edge_Neighbor_allgather;
    "MPI_Neighbor_allgatherv" "PMPI_Neighbor_allgatherv" edge_Neighbor_allgatherv;
    "MPI_Neighbor_alltoall" "PMPI_Neighbor_alltoall" edge_Neighbor_alltoall;
    "MPI_Neighbor_alltoallv" "PMPI_Neighbor_alltoallv" edge_Neighbor_alltoallv;
    "MPI_Neighbor_alltoallw" "PMPI_Neighbor_alltoallw" edge_Neighbor_alltoallw;
    "MPI_Iallreduce" "PMPI_Iallreduce" edge_Iallreduce;
    "MPI_Iallgather" "PMPI_Iallgather" edge_Iallgather;
    "MPI_Iallgatherv" "PMPI_Iallgatherv" edge_Iallgatherv;
    "MPI_Ialltoall" "PMPI_Ialltoall" edge_Ialltoall;
    "MPI_Ialltoallv" "PMPI_Ialltoallv" edge_Ialltoallv;
    "MPI_Ialltoallw" "PMPI_Ialltoallw" edge_Ialltoallw;
    "MPI_Ireduce_scatter" "PMPI_Ireduce_scatter" edge_Ireduce_scatter;
    "MPI_Ireduce_scatter_block" "PMPI_Ireduce_scatter_block" edge_Ireduce_scatter_block;
    "MPI_Ibcast" "PMPI_Ibcast" edge_Ibcast;
    "MPI_Iscatter" "PMPI_Iscatter" edge_Iscatter;
    "MPI_Iscatterv" "PMPI_Iscatterv" edge_Iscatterv;
    "MPI_Ireduce" "PMPI_Ireduce" edge_Ireduce;
    "MPI_Igather" "PMPI_Igather" edge_Igather;
    "MPI_Igatherv" "PMPI_Igatherv" edge_Igatherv;
    "MPI_Iscan" "PMPI_Iscan" edge_Iscan;
    "MPI_Iexscan" "PMPI_Iexscan" edge_Iexscan;
    "MPI_Ineighbor_allgather" "PMPI_Ineighbor_allgather" edge_Ineighbor_allgather;
    "MPI_Ineighbor_allgatherv" "PMPI_Ineighbor_allgatherv" edge_Ineighbor_allgatherv;
    "MPI_Ineighbor_alltoall" "PMPI_Ineighbor_alltoall" edge_Ineighbor_alltoall;
    "MPI_Ineighbor_alltoallv" "PMPI_Ineighbor_alltoallv" edge_Ineighbor_alltoallv;
    "MPI_Ineighbor_alltoallw" "PMPI_Ineighbor_alltoallw" edge_Ineighbor_alltoallw;
    "MPI_Send" "PMPI_Send" edge_Send;
    "MPI_Bsend" "PMPI_Bsend" edge_Bsend;
    "MPI_Rsend" "PMPI_Rsend" edge_Rsend;
    "MPI_Ssend" "PMPI_Ssend" edge_Ssend;
    "MPI_Isend" "PMPI_Isend" edge_Isend;
    "MPI_Ibsend" "PMPI_Ibsend" edge_Ibsend;
    "MPI_Irsend" "PMPI_Irsend" edge_Irsend;
    "MPI_Issend" "PMPI_Issend" edge_Issend;
    "MPI_Irecv" "PMPI_Irecv" edge_Irecv;
    "MPI_Sendrecv" "PMPI_Sendrecv" edge_Sendrecv;
    "MPI_Sendrecv_replace" "PMPI_Sendrecv_replace" edge_Sendrecv_replace;
    "MPI_Mrecv" "PMPI_Mrecv" edge_Mrecv;
    "MPI_Imrecv" "PMPI_Imrecv" edge_Imrecv;
    "MPI_Ibarrier" "PMPI_Ibarrier" edge_Ibarrier;
    "MPI_Cancel" "PMPI_Cancel" edge_Cancel;
    "MPI_Request_free" "PMPI_Request_free" edge_Request_free;
    "MPI_Start" "PMPI_Start" edge_Start;
    "MPI_Startall" "PMPI_Startall" edge_Startall;
    "MPI_Probe" "PMPI_Probe" edge_Probe;
    "MPI_Iprobe" "PMPI_Iprobe" edge_Iprobe;
    "MPI_Mprobe" "PMPI_Mprobe" edge_Mprobe;
    "MPI_Improbe" "PMPI_Improbe" edge_Improbe;
    "MPI_Comm_dup" "PMPI_Comm_dup" edge_Comm_dup;
    "MPI_Comm_dup_with_info" "PMPI_Comm_dup_with_info" edge_Comm_dup_with_info;
    "MPI_Comm_idup" "PMPI_Comm_idup" edge_Comm_idup;
    "MPI_Comm_split" "PMPI_Comm_split" edge_Comm_split;
    "MPI_Comm_split_type" "PMPI_Comm_split_type" edge_Comm_split_type;
    "MPI_Comm_create" "PMPI_Comm_create" edge_Comm_create;
    "MPI_Comm_create_group" "PMPI_Comm_create_group" edge_Comm_create_group;
    "MPI_Cart_create" "PMPI_Cart_create" edge_Cart_create;
    "MPI_Cart_sub" "PMPI_Cart_sub" edge_Cart_sub;
    "MPI_Graph_create" "PMPI_Graph_create" edge_Graph_create;
    "MPI_Dist_graph_create" "PMPI_Dist_graph_create" edge_Dist_graph_create;
    "MPI_Dist_graph_create_adjacent" "PMPI_Dist_graph_create_adjacent" edge_Dist_graph_create_adjacent;
    "MPI_Intercomm_create" "PMPI_Intercomm_create" edge_Intercomm_create;
    "MPI_Intercomm_merge" "PMPI_Intercomm_merge" edge_Intercomm_merge;
    "MPI_Comm_accept" "PMPI_Comm_accept" edge_Comm_accept;
    "MPI_Comm_connect" "PMPI_Comm_connect" edge_Comm_connect;
    "MPI_Comm_spawn" "PMPI_Comm_spawn" edge_Comm_spawn;
    "MPI_Comm_disconnect" "PMPI_Comm_disconnect" edge_Comm_disconnect;
}

#[cfg(has_counts)]
watched! {
    "MPI_Reduce_local_c" "PMPI_Reduce_local_c" edge_Reduce_local_c;
    "MPI_Pack_c" "PMPI_Pack_c" edge_Pack_c;
    "MPI_Unpack_c" "PMPI_Unpack_c" edge_Unpack_c;
    "MPI_Send_init_c" "PMPI_Send_init_c" edge_Send_init_c;
    "MPI_Bsend_init_c" "PMPI_Bsend_init_c" edge_Bsend_init_c;
    "MPI_Rsend_init_c" "PMPI_Rsend_init_c" edge_Rsend_init_c;
    "MPI_Ssend_init_c" "PMPI_Ssend_init_c" edge_Ssend_init_c;
    "MPI_Recv_init_c" "PMPI_Recv_init_c" edge_Recv_init_c;
    "MPI_Recv_c" "PMPI_Recv_c" edge_Recv_c;
    "MPI_Allreduce_c" "PMPI_Allreduce_c" edge_Allreduce_c;
    "MPI_Allgather_c" "PMPI_Allgather_c" edge_Allgather_c;
    "MPI_Allgatherv_c" "PMPI_Allgatherv_c" edge_Allgatherv_c;
    "MPI_Alltoall_c" "PMPI_Alltoall_c" edge_Alltoall_c;
    "MPI_Alltoallv_c" "PMPI_Alltoallv_c" edge_Alltoallv_c;
    "MPI_Alltoallw_c" "PMPI_Alltoallw_c" edge_Alltoallw_c;
    "MPI_Reduce_scatter_c" "PMPI_Reduce_scatter_c" edge_Reduce_scatter_c;
    "MPI_Reduce_scatter_block_c" "PMPI_Reduce_scatter_block_c" edge_Reduce_scatter_block_c;
    "MPI_Bcast_c" "PMPI_Bcast_c" edge_Bcast_c;
    "MPI_Scatter_c" "PMPI_Scatter_c" edge_Scatter_c;
    "MPI_Scatterv_c" "PMPI_Scatterv_c" edge_Scatterv_c;
    "MPI_Reduce_c" "PMPI_Reduce_c" edge_Reduce_c;
    "MPI_Gather_c" "PMPI_Gather_c" edge_Gather_c;
    "MPI_Gatherv_c" "PMPI_Gatherv_c" edge_Gatherv_c;
    "MPI_Scan_c" "PMPI_Scan_c" edge_Scan_c;
    "MPI_Exscan_c" "PMPI_Exscan_c" edge_Exscan_c;
    "MPI_Neighbor_allgather_c" "PMPI_Neighbor_allgather_c" edge_Neighbor_allgather_c;
    "MPI_Neighbor_allgatherv_c" "PMPI_Neighbor_allgatherv_c" edge_Neighbor_allgatherv_c;
    "MPI_Neighbor_alltoall_c" "PMPI_Neighbor_alltoall_c" edge_Neighbor_alltoall_c;
    "MPI_Neighbor_alltoallv_c" "PMPI_Neighbor_alltoallv_c" edge_Neighbor_alltoallv_c;
    "MPI_Neighbor_alltoallw_c" "PMPI_Neighbor_alltoallw_c" edge_Neighbor_alltoallw_c;
    "MPI_Iallreduce_c" "PMPI_Iallreduce_c" edge_Iallreduce_c;
    "MPI_Iallgather_c" "PMPI_Iallgather_c" edge_Iallgather_c;
    "MPI_Iallgatherv_c" "PMPI_Iallgatherv_c" edge_Iallgatherv_c;
    "MPI_Ialltoall_c" "PMPI_Ialltoall_c" edge_Ialltoall_c;
    "MPI_Ialltoallv_c" "PMPI_Ialltoallv_c" edge_Ialltoallv_c;
    "MPI_Ialltoallw_c" "PMPI_Ialltoallw_c" edge_Ialltoallw_c;
    "MPI_Ireduce_scatter_c" "PMPI_Ireduce_scatter_c" edge_Ireduce_scatter_c;
    "MPI_Ireduce_scatter_block_c" "PMPI_Ireduce_scatter_block_c" edge_Ireduce_scatter_block_c;
    "MPI_Ibcast_c" "PMPI_Ibcast_c" edge_Ibcast_c;
    "MPI_Iscatter_c" "PMPI_Iscatter_c" edge_Iscatter_c;
    "MPI_Iscatterv_c" "PMPI_Iscatterv_c" edge_Iscatterv_c;
    "MPI_Ireduce_c" "PMPI_Ireduce_c" edge_Ireduce_c;
    "MPI_Igather_c" "PMPI_Igather_c" edge_Igather_c;
    "MPI_Igatherv_c" "PMPI_Igatherv_c" edge_Igatherv_c;
    "MPI_Iscan_c" "PMPI_Iscan_c" edge_Iscan_c;
    "MPI_Iexscan_c" "PMPI_Iexscan_c" edge_Iexscan_c;
    "MPI_Ineighbor_allgather_c" "PMPI_Ineighbor_allgather_c" edge_Ineighbor_allgather_c;
    "MPI_Ineighbor_allgatherv_c" "PMPI_Ineighbor_allgatherv_c" edge_Ineighbor_allgatherv_c;
    "MPI_Ineighbor_alltoall_c" "PMPI_Ineighbor_alltoall_c" edge_Ineighbor_alltoall_c;
    "MPI_Ineighbor_alltoallv_c" "PMPI_Ineighbor_alltoallv_c" edge_Ineighbor_alltoallv_c;
    "MPI_Ineighbor_alltoallw_c" "PMPI_Ineighbor_alltoallw_c" edge_Ineighbor_alltoallw_c;
    "MPI_Send_c" "PMPI_Send_c" edge_Send_c;
    "MPI_Bsend_c" "PMPI_Bsend_c" edge_Bsend_c;
    "MPI_Rsend_c" "PMPI_Rsend_c" edge_Rsend_c;
    "MPI_Ssend_c" "PMPI_Ssend_c" edge_Ssend_c;
    "MPI_Isend_c" "PMPI_Isend_c" edge_Isend_c;
    "MPI_Ibsend_c" "PMPI_Ibsend_c" edge_Ibsend_c;
    "MPI_Irsend_c" "PMPI_Irsend_c" edge_Irsend_c;
    "MPI_Issend_c" "PMPI_Issend_c" edge_Issend_c;
    "MPI_Irecv_c" "PMPI_Irecv_c" edge_Irecv_c;
    "MPI_Sendrecv_c" "PMPI_Sendrecv_c" edge_Sendrecv_c;
    "MPI_Sendrecv_replace_c" "PMPI_Sendrecv_replace_c" edge_Sendrecv_replace_c;
    "MPI_Isendrecv_c" "PMPI_Isendrecv_c" edge_Isendrecv_c;
    "MPI_Isendrecv_replace_c" "PMPI_Isendrecv_replace_c" edge_Isendrecv_replace_c;
    "MPI_Mrecv_c" "PMPI_Mrecv_c" edge_Mrecv_c;
    "MPI_Imrecv_c" "PMPI_Imrecv_c" edge_Imrecv_c;
}

#[cfg(has_isendrecv)]
watched! {
    "MPI_Isendrecv" "PMPI_Isendrecv" edge_Isendrecv;
    "MPI_Isendrecv_replace" "PMPI_Isendrecv_replace" edge_Isendrecv_replace;
}

#[cfg(has_partitions)]
watched! {
    "MPI_Pready" "PMPI_Pready" edge_Pready;
    "MPI_Pready_range" "PMPI_Pready_range" edge_Pready_range;
    "MPI_Pready_list" "PMPI_Pready_list" edge_Pready_list;
    "MPI_Parrived" "PMPI_Parrived" edge_Parrived;
}

#[cfg(has_idup_with_info)]
watched! {
    "MPI_Comm_idup_with_info" "PMPI_Comm_idup_with_info" edge_Comm_idup_with_info;
}

#[cfg(has_persistent)]
watched! {
    "MPI_Barrier_init" "PMPI_Barrier_init" edge_Barrier_init;
    "MPI_Allreduce_init" "PMPI_Allreduce_init" edge_Allreduce_init;
    "MPI_Allreduce_init_c" "PMPI_Allreduce_init_c" edge_Allreduce_init_c;
    "MPI_Allgather_init" "PMPI_Allgather_init" edge_Allgather_init;
    "MPI_Allgather_init_c" "PMPI_Allgather_init_c" edge_Allgather_init_c;
    "MPI_Allgatherv_init" "PMPI_Allgatherv_init" edge_Allgatherv_init;
    "MPI_Allgatherv_init_c" "PMPI_Allgatherv_init_c" edge_Allgatherv_init_c;
    "MPI_Alltoall_init" "PMPI_Alltoall_init" edge_Alltoall_init;
    "MPI_Alltoall_init_c" "PMPI_Alltoall_init_c" edge_Alltoall_init_c;
    "MPI_Alltoallv_init" "PMPI_Alltoallv_init" edge_Alltoallv_init;
    "MPI_Alltoallv_init_c" "PMPI_Alltoallv_init_c" edge_Alltoallv_init_c;
    "MPI_Alltoallw_init" "PMPI_Alltoallw_init" edge_Alltoallw_init;
    "MPI_Alltoallw_init_c" "PMPI_Alltoallw_init_c" edge_Alltoallw_init_c;
    "MPI_Reduce_scatter_init" "PMPI_Reduce_scatter_init" edge_Reduce_scatter_init;
    "MPI_Reduce_scatter_init_c" "PMPI_Reduce_scatter_init_c" edge_Reduce_scatter_init_c;
    "MPI_Reduce_scatter_block_init" "PMPI_Reduce_scatter_block_init" edge_Reduce_scatter_block_init;
    "MPI_Reduce_scatter_block_init_c" "PMPI_Reduce_scatter_block_init_c" edge_Reduce_scatter_block_init_c;
    "MPI_Bcast_init" "PMPI_Bcast_init" edge_Bcast_init;
    "MPI_Bcast_init_c" "PMPI_Bcast_init_c" edge_Bcast_init_c;
    "MPI_Scatter_init" "PMPI_Scatter_init" edge_Scatter_init;
    "MPI_Scatter_init_c" "PMPI_Scatter_init_c" edge_Scatter_init_c;
    "MPI_Scatterv_init" "PMPI_Scatterv_init" edge_Scatterv_init;
    "MPI_Scatterv_init_c" "PMPI_Scatterv_init_c" edge_Scatterv_init_c;
    "MPI_Reduce_init" "PMPI_Reduce_init" edge_Reduce_init;
    "MPI_Reduce_init_c" "PMPI_Reduce_init_c" edge_Reduce_init_c;
    "MPI_Gather_init" "PMPI_Gather_init" edge_Gather_init;
    "MPI_Gather_init_c" "PMPI_Gather_init_c" edge_Gather_init_c;
    "MPI_Gatherv_init" "PMPI_Gatherv_init" edge_Gatherv_init;
    "MPI_Gatherv_init_c" "PMPI_Gatherv_init_c" edge_Gatherv_init_c;
    "MPI_Scan_init" "PMPI_Scan_init" edge_Scan_init;
    "MPI_Scan_init_c" "PMPI_Scan_init_c" edge_Scan_init_c;
    "MPI_Exscan_init" "PMPI_Exscan_init" edge_Exscan_init;
    "MPI_Exscan_init_c" "PMPI_Exscan_init_c" edge_Exscan_init_c;
    "MPI_Neighbor_allgather_init" "PMPI_Neighbor_allgather_init" edge_Neighbor_allgather_init;
    "MPI_Neighbor_allgather_init_c" "PMPI_Neighbor_allgather_init_c" edge_Neighbor_allgather_init_c;
    "MPI_Neighbor_allgatherv_init" "PMPI_Neighbor_allgatherv_init" edge_Neighbor_allgatherv_init;
    "MPI_Neighbor_allgatherv_init_c" "PMPI_Neighbor_allgatherv_init_c" edge_Neighbor_allgatherv_init_c;
    "MPI_Neighbor_alltoall_init" "PMPI_Neighbor_alltoall_init" edge_Neighbor_alltoall_init;
    "MPI_Neighbor_alltoall_init_c" "PMPI_Neighbor_alltoall_init_c" edge_Neighbor_alltoall_init_c;
    "MPI_Neighbor_alltoallv_init" "PMPI_Neighbor_alltoallv_init" edge_Neighbor_alltoallv_init;
    "MPI_Neighbor_alltoallv_init_c" "PMPI_Neighbor_alltoallv_init_c" edge_Neighbor_alltoallv_init_c;
    "MPI_Neighbor_alltoallw_init" "PMPI_Neighbor_alltoallw_init" edge_Neighbor_alltoallw_init;
    "MPI_Neighbor_alltoallw_init_c" "PMPI_Neighbor_alltoallw_init_c" edge_Neighbor_alltoallw_init_c;
}
